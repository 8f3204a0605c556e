"""Pictures of the documentation: a training in a terminal, its page in TensorBoard, a learning rate.

    python tools/screenshots.py [NAME ...]          # all, or some of: training tensorboard rates

Trains the tutorial with real commands and writes `docs/pictures`. Needs tmux and Chromium.
"""

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
BIN = Path(sys.executable).parent
COLUMNS, ROWS = 116, 14
TRAIN = "tfaip-train tfaip.scenario.tutorial.full --trainer.random_seed 1 --trainer.epochs"
RUNS = {
    "runs/mlp": f"{TRAIN} 8 --model.graph MLP",
    "runs/cnn": f"{TRAIN} 8 --learning_rate WarmupCosineDecay --learning_rate.warmup_epochs 2",
}
TYPED = f"{TRAIN} 5 --model.graph MLP --trainer.samples_per_epoch 16000 --trainer.output_dir terminal"
RATES = (
    "tfaip-preview-schedule tfaip.scenario.tutorial.min --trainer.epochs 10 --learning_rate WarmupCosineDecay "
    "--learning_rate.warmup_epochs 3 --learning_rate.step_function False --learning_rate.alpha 0.1 --png rates.png"
)
# A training that has a row and is in the middle of a later epoch.
IN_AN_EPOCH = re.compile(r"^ +2\*? .*Epoch 3/5\D+[3-8]\d\d/1000", re.DOTALL | re.MULTILINE)
PATIENCE_S = 500


def main() -> None:
    """Write the pictures."""
    names = sys.argv[1:] or list(MAKERS)
    if unknown := set(names) - set(MAKERS):
        sys.exit(f"unknown pictures: {', '.join(unknown)}; expected some of: {', '.join(MAKERS)}")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            picture = MAKERS[name](Path(directory))
            print(f"{picture.relative_to(PICTURES.parent.parent)}: {picture.stat().st_size / 1000:.0f} kB")


def run(line: str, directory: Path) -> None:
    """Run a command of the package."""
    name, *arguments = shlex.split(line)
    subprocess.run([BIN / name, *arguments], cwd=directory, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def train(directory: Path) -> None:
    """Train the two runs that are compared, once."""
    for output_dir, line in RUNS.items():
        if not (directory / output_dir).exists():
            run(f"{line} --trainer.output_dir {output_dir}", directory)


def training(directory: Path) -> Path:
    """Show a terminal in the middle of a training."""
    tmux = ["tmux", "-L", f"tfaip{directory.name}"]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    command = ["new-session", "-d", *size, "-c", str(directory), f"{BIN / TYPED}; cat"]
    subprocess.run([*tmux, *command], check=True)  # noqa: S603
    try:
        screen = wait_for(lambda: captured(tmux), lambda shown: IN_AN_EPOCH.search(Text.from_ansi(shown).plain))
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)  # noqa: S603
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip()))
    svg = console.export_svg(title="tfaip-train", unique_id="training")
    picture = PICTURES / "training.svg"
    # Without the addresses of fonts: the picture loads nothing.
    picture.write_text(re.sub(r"@font-face \{[^}]*\}\s*", "", svg))
    return picture


def captured(tmux: list[str]) -> str:
    """Return what a terminal shows, with colours."""
    return subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout  # noqa: S603


def wait_for(look: Callable[[], str], is_complete: Callable[[str], object]) -> str:
    """Return what is seen as soon as it is complete."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if is_complete(seen := look()):
            return seen
        time.sleep(0.05)
    sys.exit(f"not seen within {PATIENCE_S} s; the last look:\n{look()}")


def tensorboard(directory: Path) -> Path:
    """Show the curves of two runs in TensorBoard."""
    train(directory)
    picture = PICTURES / "tensorboard.png"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", "0", "--load_fast", "false"]
    server = subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE)  # noqa: S603
    try:
        assert server.stderr is not None  # noqa: S101
        address = next(found[0].decode() for line in server.stderr if (found := re.search(rb"http://\S+:\d+/", line)))
        browse(f"{address}?darkMode=false#scalars&_smoothingWeight=0", picture, directory)
    finally:
        server.kill()
        server.communicate()
    return with_few_colours(picture)


def browse(address: str, picture: Path, directory: Path) -> None:
    """Take a picture of a page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("chromium is not installed")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={directory / 'profile'}", "--window-size=1000,760"]
    command += ["--virtual-time-budget=20000", f"--screenshot={picture}", address]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)  # noqa: S603


def rates(directory: Path) -> Path:
    """Show a learning rate schedule."""
    run(RATES, directory)
    return kept(directory / "rates.png")


def kept(written: Path) -> Path:
    """Move a picture to the others."""
    return with_few_colours(Path(shutil.copy(written, PICTURES)))


def with_few_colours(picture: Path) -> Path:
    """Make a picture smaller that has lines and letters only."""
    Image.open(picture).convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)
    return picture


MAKERS = {"training": training, "tensorboard": tensorboard, "rates": rates}

if __name__ == "__main__":
    main()
