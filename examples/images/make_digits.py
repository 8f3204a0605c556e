"""Write scikit-learn's handwritten digits as PNG files into a folder, one directory per class."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

folder = Path(sys.argv[1])
for number, (image, digit) in enumerate(zip(*load_digits(return_X_y=True), strict=True)):
    path = folder / str(digit) / f"{number:04}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = (image.reshape(8, 8) * (255 / 16)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
