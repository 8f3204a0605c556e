// A button that copies a block of code, without the prompts of a console; the code ends beside it.
for (const block of document.querySelectorAll("div.highlight")) {
  const button = document.createElement("button");
  button.textContent = "Copy";
  button.style = "position: absolute; top: 0.3em; right: 0.3em; font-size: 0.7em; color: gray; cursor: pointer";
  button.style.background = "var(--color-background-primary)";
  button.style.border = "1px solid";
  button.onclick = async () => {
    await navigator.clipboard.writeText(block.querySelector("pre").textContent.replace(/^\$ /gm, ""));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  block.style.position = "relative";
  block.querySelector("pre").style.paddingRight = "5em";
  block.append(button);
}

// A flag is not broken after its dashes.
for (const word of document.querySelectorAll("code .pre")) {
  if (word.textContent.startsWith("-")) word.style.whiteSpace = "nowrap";
}
