"""Write scikit-learn's diabetes patients as CSV files: `python make_patients.py patients`."""

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_diabetes

data = load_diabetes(scaled=False)
header = [*data.feature_names, "progression"]
rows = [[*map(float, row), float(target)] for row, target in zip(data.data, data.target, strict=True)]
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, is_val in (("train.csv", False), ("val.csv", True)):  # every fifth patient is for the validation
    with open(folder / name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(row for number, row in enumerate(rows) if (number % 5 == 0) == is_val)
