"""Train a backbone on printed characters, and write its weights: `python make_backbone.py backbone.weights.h5`."""

import string
import sys

import keras
import numpy as np
from keras import layers
from PIL import Image, ImageDraw, ImageFont
from transfer.model import backbone

# Printed digits, and the letters that do not look like others when their height is that of the image.
CHARACTERS = string.digits + "ABCDEFGHJKLMNPQRTUVWXYZabdefghnqrt"
SIZE, FINE = 8, 64  # pixels of an image, and of what it is made from


def shifts(rng: np.random.Generator) -> np.ndarray:
    """Return smooth random numbers, of about four pixels, for each place of an image."""
    coarse = Image.fromarray(rng.normal(0, 4, (4, 4)).astype("float32"))
    return np.asarray(coarse.resize((FINE, FINE), Image.Resampling.BICUBIC))


def character(text: str, font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> np.ndarray:
    """Return an image of a character of random width, thickness, slope and shape."""
    canvas = Image.new("L", (FINE, FINE))
    ImageDraw.Draw(canvas).text((32, 32), text, 255, font, anchor="mm", stroke_width=int(rng.integers(3)))
    width = int(rng.uniform(32, 60))
    scaled = canvas.crop(canvas.getbbox()).resize((width, FINE))
    canvas.paste(0, (0, 0, FINE, FINE))
    canvas.paste(scaled, ((FINE - width) // 2, 0))
    y, x = np.indices((FINE, FINE))
    x = x + rng.normal(0, 0.2) * (y - FINE / 2) + shifts(rng)
    y = y + shifts(rng)
    rows, columns = (np.clip(np.rint(place), 0, FINE - 1).astype(int) for place in (y, x))
    step = FINE // SIZE
    return np.asarray(canvas)[rows, columns].reshape(SIZE, step, SIZE, step).mean(axis=(1, 3)) / 255


def main(file: str, number: int = 6000, epochs: int = 12) -> None:
    """Train with Keras alone."""
    rng = np.random.default_rng(1)
    keras.utils.set_random_seed(1)
    font = ImageFont.load_default(40)
    labels = rng.integers(len(CHARACTERS), size=number)
    images = np.stack([character(CHARACTERS[label], font, rng) for label in labels])[..., None]
    features = backbone(SIZE)
    network = keras.Sequential([features, layers.Dropout(0.3), layers.Dense(len(CHARACTERS), activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = network.fit(images, labels, batch_size=64, epochs=epochs, verbose=0).history
    print(f"{number} characters, accuracy in training {history['accuracy'][-1]:.3f}")
    features.save_weights(file)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
