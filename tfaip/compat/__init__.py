"""Old names, and code that only programs of earlier versions need; nothing else imports this package."""
