"""Predicted digits of the tutorial: a picture, and some of them on the terminal.

    tfaip-predict --export_dir runs/demo/best --dump predictions.npz --dump_inputs --predict.include_targets True
    python tools/show_digits.py predictions.npz digits.png

Below each digit are its true class and the predicted one. Digits that the model reads wrong come first.
"""

import sys

import numpy as np

# A dependency of TensorBoard.
from PIL import Image, ImageDraw, ImageFont

COLUMNS = 8  # as many as 80 characters hold
PICTURE_ROWS, TERMINAL_ROWS = 5, 2
SCALE, GAP, CAPTION = 10, 12, 24  # pixels
RIGHT, WRONG = "#1a7f37", "#d1242f"
# Characters for two pixels, one above the other: none, the upper, the lower, both.
BLOCKS, ASCII = " ▀▄█", " '.:"
BRIGHT = 100  # of 255


def main() -> None:
    """Read the predictions, draw and print."""
    predictions, picture = sys.argv[1:]
    with np.load(predictions) as samples:
        images = (samples["inputs/img"][..., 0] * 255).astype("uint8")
        truth, predicted = samples["targets/label"][:, 0], samples["outputs/class"]

    order = np.argsort(predicted == truth, kind="stable")
    images, truth, predicted = images[order], truth[order], predicted[order]
    draw(images, truth, predicted).save(picture)
    wrong = np.sum(predicted != truth)
    print(f"{len(truth)} digits of the validation data, of which the model reads {wrong} wrong (!); these come first.")
    print("Below each digit: its class > the prediction.\n")
    print_digits(images, truth, predicted)
    print(f"Picture with more of them: {picture}")


def draw(images: np.ndarray, truth: np.ndarray, predicted: np.ndarray) -> Image.Image:
    """Return the picture of the first digits, with a caption each; wrong ones have a frame."""
    size = images.shape[1] * SCALE
    width, height = size + GAP, size + CAPTION + GAP
    sheet = Image.new("RGB", (COLUMNS * width + GAP, PICTURE_ROWS * height + GAP), "white")
    canvas, font = ImageDraw.Draw(sheet), ImageFont.load_default(18)
    for index in range(min(len(images), COLUMNS * PICTURE_ROWS)):
        left, top = GAP + index % COLUMNS * width, GAP + index // COLUMNS * height
        sheet.paste(Image.fromarray(images[index]).resize((size, size), Image.Resampling.NEAREST), (left, top))
        is_right = truth[index] == predicted[index]
        color = RIGHT if is_right else WRONG
        if not is_right:
            canvas.rectangle((left - 4, top - 4, left + size + 3, top + size + 3), outline=color, width=4)
        text = f"{truth[index]} > {predicted[index]}"
        canvas.text((left + size // 2, top + size + 8), text, fill=color, font=font, anchor="mt")
    return sheet


def print_digits(images: np.ndarray, truth: np.ndarray, predicted: np.ndarray) -> None:
    """Print the first digits, two pixels in a character; wrong ones have a mark."""
    characters = BLOCKS
    try:
        BLOCKS.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        characters = ASCII
        print(f'(The encoding {sys.stdout.encoding} has no block characters: "{ASCII}" stand for them.)\n')
    for begin in range(0, COLUMNS * TERMINAL_ROWS, COLUMNS):
        row = slice(begin, begin + COLUMNS)
        bright = (images[row] >= BRIGHT).astype(int)
        codes = bright[:, 0::2] + 2 * bright[:, 1::2]
        for line in codes.swapaxes(0, 1):
            print("  ".join("".join(characters[code] for code in digit) for digit in line).rstrip())
        captions = [f"{a} > {b}{'' if a == b else ' !'}" for a, b in zip(truth[row], predicted[row], strict=True)]
        print("  ".join(f"{caption:^8}" for caption in captions).rstrip() + "\n")


if __name__ == "__main__":
    main()
