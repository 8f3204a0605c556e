"""Samples that are the images of a folder, with one directory per class, or without classes."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from tfaip.data.generators.decoding import IMAGE_BYTES, decode_image
from tfaip.data.pipeline.datagenerator import Generator, flag_of, unreadable_file
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.util.reading import read_bytes
from tfaip.util.text import shorten, shorten_text

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


class ImageFolder(Generator):
    """Images in a folder: `FOLDER/cat/1.png`, `FOLDER/dog/1.jpg`, or without classes `FOLDER/1.png`.

    A sample is `inputs {"image": uint8 of shape [height, width, channels]}` and, in a directory of a
    class, `targets {"class": [its number]}`. `meta` is the path. The order is that of the paths.
    """

    folder: str = option("", "Folder of images, with one directory per class, or none", common=True)
    classes: list[str] = option(
        [], "Classes in the order of their numbers (empty: the directories of the folder, sorted)", common=True
    )
    channels: int = option(3, "Channels of the images: 1 gray, 3 color, 4 color and alpha", choices=[1, 3, 4])
    image_size: list[int] = option([], "Height and width to which images are resized (empty: as they are)", low=1)

    @cached_property
    def _names(self) -> list[str]:
        """Return the classes."""
        if not self.folder:
            flag = flag_of(self.mode, "folder")
            raise UsageError(f"no folder of images is given for the {self.mode}: name one, e.g. {flag} DIR")
        if len(self.image_size) not in (0, 2):
            raise FieldError("image_size", self.image_size, "height and width")
        try:
            found = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        except (OSError, ValueError) as error:
            raise unreadable_file("image", self.folder, error, "folder") from error
        found = [name for name in found if not name.startswith(".")]
        unknown = [name for name in found if self.classes and name not in self.classes]
        if unknown:
            raise UsageError(
                f"the folder {shorten_text(self.folder, 150)} has the directory {shorten(unknown[0])}, which is not in "
                f"classes: {shorten_text(' '.join(self.classes), 80)}"
            )
        return self.classes or found

    @cached_property
    def _files(self) -> list[str]:
        """Return the paths of the images below the folder."""
        names, root = self._names, Path(self.folder)
        files: list[str] = []
        for name in ["", *names]:
            for directory, below, found in os.walk(root / name):
                inside = os.path.relpath(directory, root)
                if not name:
                    below.clear()
                below[:] = [entry for entry in below if not entry.startswith(".")]
                images = [entry for entry in found if entry.lower().endswith(_SUFFIXES) and entry[0] != "."]
                files += [os.path.normpath(os.path.join(inside, entry)) for entry in images]
        if not files:
            raise UsageError(
                f"the folder {shorten_text(self.folder, 150)} has no image ({' '.join(_SUFFIXES)}), neither itself nor "
                "in directories of classes"
            )
        return sorted(files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Sample:
        file = self._files[index]
        path = os.path.join(self.folder, file)
        try:
            size = (self.image_size[0], self.image_size[1]) if self.image_size else None
            image = decode_image(read_bytes(path, IMAGE_BYTES), self.channels, size)
        except (OSError, ValueError) as error:
            raise unreadable_file("image", path, error) from error
        name, separator, _ = file.partition(os.sep)
        targets = {"class": [self._names.index(name)]} if separator else None
        return Sample(inputs={"image": image}, targets=targets, meta=path)
