"""Old names, and code that only programs of tfaip 1.2 need; nothing else imports this package."""
