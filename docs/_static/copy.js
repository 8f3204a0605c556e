// A button that copies a block of code, without the prompts of a console.
for (const block of document.querySelectorAll("div.highlight")) {
  const button = document.createElement("button");
  button.textContent = "Copy";
  button.style = "position: absolute; top: 0.3em; right: 0.3em; font-size: 0.7em; opacity: 0.6; cursor: pointer";
  button.onclick = async () => {
    await navigator.clipboard.writeText(block.querySelector("pre").textContent.replace(/^\$ /gm, ""));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  block.style.position = "relative";
  block.append(button);
}
