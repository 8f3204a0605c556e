import contextlib
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tfaip import PipelineMode, Sample
from tfaip.data.generators import imagefolder
from tfaip.data.generators.imagefolder import ImageFolder, decode_image
from tfaip.errors import UsageError
from tfaip.util import reading


def write(path: Path, value: int, shape: tuple[int, ...] = (2, 3, 3)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)


def read(folder: Path | str, mode: PipelineMode = PipelineMode.TRAINING, **params: Any) -> list[Sample]:
    generator = ImageFolder(folder=str(folder), **params).create(mode)
    assert len(generator) == len(list(generator.generate()))
    return list(generator.generate())


def test_directories_are_classes(tmp_path: Path) -> None:
    write(tmp_path / "dog" / "a.png", 10)
    write(tmp_path / "cat" / "more" / "b.PNG", 20)
    write(tmp_path / "cat" / ".hidden.png", 20)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    first, second = read(tmp_path)
    assert (first.meta, second.meta) == (str(tmp_path / "cat" / "more" / "b.PNG"), str(tmp_path / "dog" / "a.png"))
    assert first.inputs["image"].dtype == np.uint8
    assert first.inputs["image"].tolist() == np.full((2, 3, 3), 20).tolist()
    assert [first.targets, second.targets] == [{"class": [0]}, {"class": [1]}]
    # Named classes have their numbers in each folder, whichever of them it has.
    assert [sample.targets["class"] for sample in read(tmp_path, classes=["bird", "dog", "cat"])] == [[2], [1]]
    with pytest.raises(UsageError, match="has the directory 'dog', which is not in classes: cat$"):
        read(tmp_path, classes=["cat"])


def test_a_folder_without_classes_has_no_targets(tmp_path: Path) -> None:
    write(tmp_path / "b.png", 1, (4, 4))
    (sample,) = read(tmp_path, PipelineMode.PREDICTION, channels=1, image_size=[2, 6])
    assert sample.targets is None
    assert sample.inputs["image"].tolist() == np.full((2, 6, 1), 1).tolist()


def test_a_damaged_image_is_named_and_costs_one_sample(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 1)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    (tmp_path / "c.png").symlink_to("missing")
    (tmp_path / "d.jpg").write_text("<svg/>")
    generator = ImageFolder(folder=str(tmp_path)).create(PipelineMode.TRAINING)
    assert generator[0].inputs["image"].shape == (2, 3, 3)  # type: ignore[index]
    for index, name in ((1, "b.png"), (2, "c.png"), (3, "d.jpg")):
        with pytest.raises(UsageError, match=rf"^cannot read the image file \S*{name}: ") as caught:
            generator[index]  # type: ignore[index]
        assert "\n" not in str(caught.value)


def test_unusable_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="^no folder of images is given for the training: name one in folder$"):
        read("")
    with pytest.raises(UsageError, match="has no image"):
        read(tmp_path)
    for name in (tmp_path / "missing", "a\0b", "x" * 5000):
        with pytest.raises(UsageError, match="^cannot read the image file ") as caught:
            read(name)
        assert len(str(caught.value)) <= 320
    with pytest.raises(UsageError, match="^image_size is .*, expected height and width"):
        read(tmp_path, image_size=[3])


def png_header(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (png_header(2**31 - 1, 2**31 - 1), "no image that can be read: "),
        (png_header(10, 10), "no image that can be read: "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "no image that can be read: cannot identify image file"),
        (
            png_header(13000, 13000) + b"\0\0\0\x09IDAT",
            "13000 x 13000 pixels in 3 channels take more than 576 MiB$",
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_hostile_images_are_refused_with_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        decode_image(content)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("mode", "extra", "fits"), [("L", 0, True), ("RGB", 0, False), ("RGB", 2**15, True)])
def test_a_larger_file_may_have_more_pixels(mode: str, extra: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # However little Pillow allows; gray pixels take a quarter of others.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    monkeypatch.setattr(reading, "EXPANDED_BYTES", (2**20, 2**21))
    content = encoded(Image.new(mode, (700, 700), 7), "PNG") + bytes(extra)
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="in 1 channels take more than 1 MiB"):
        assert decode_image(content, channels=1).shape == (700, 700, 1)
    assert Image.MAX_IMAGE_PIXELS == 1000


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK"])
def test_images_are_converted_in_parts(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagefolder, "_PART", 3)
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (7, 10, 4), np.uint8), "RGBA").convert(mode)
    options: Any = {"transparency": 3} if mode == "P" else {}
    content = encoded(image, "TIFF" if mode == "CMYK" else "PNG", **options)
    with Image.open(BytesIO(content)) as stored:
        for channels, wanted in ((1, "L"), (3, "RGB"), (4, "RGBA")):
            expected = np.asarray(stored.convert(wanted)).reshape(7, 10, channels)
            assert np.array_equal(decode_image(content, channels), expected)
            small = np.asarray(stored.convert(wanted).resize((4, 5), Image.Resampling.BILINEAR))
            assert np.array_equal(decode_image(content, channels, (5, 4)), small.reshape(5, 4, channels))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_become_the_upper_8(kind: str) -> None:
    image = Image.fromarray(np.array([[0, 128, 256, 16384, 32768, 65535]], np.uint16))
    for channels in (1, 3):
        assert decode_image(encoded(image, kind), channels)[0, :, 0].tolist() == [0, 0, 1, 64, 128, 255]
    assert decode_image(encoded(image, kind), 1, (1, 1)).shape == (1, 1, 1)


def test_floats_go_from_0_to_1() -> None:
    def pixels(*values: float) -> list[int]:
        image = Image.fromarray(np.array([values], np.float32))
        return list(decode_image(encoded(image, "TIFF"), channels=1)[0, :, 0].tolist())

    assert pixels(0, 0.25, 0.5, 1) == [0, 63, 127, 255]
    for wrong in (255.0, -0.5, float("nan")):
        with pytest.raises(ValueError, match="expected floats from 0 to 1"):
            pixels(0, wrong)
    with pytest.raises(ValueError, match="32 bits: expected 8 or 16 bits"):
        decode_image(encoded(Image.fromarray(np.array([[70000]], np.int32)), "TIFF"))


# What orientations 1 to 8 make of a b / c d.
UPRIGHT = ["abcd", "badc", "dcba", "cdab", "acbd", "cadb", "dbca", "bdac"]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG", "WEBP"])
def test_images_stand_upright(kind: str) -> None:
    levels = dict(a=10, b=80, c=160, d=240)
    stored = Image.fromarray(np.array([[10, 80], [160, 240]], np.uint8).repeat(8, 0).repeat(8, 1))
    for number, expected in enumerate(UPRIGHT, 1):
        orientation = Image.Exif()
        orientation[0x112] = number
        found = decode_image(encoded(stored, kind, exif=orientation), 1)[4::8, 4::8].ravel()
        assert found == pytest.approx([levels[letter] for letter in expected], abs=2)
    if kind == "PNG":
        damaged = b"Exif\0\0II*\0\xff\xff\xff"
        assert decode_image(encoded(stored, kind, exif=damaged), 1)[0, 0] == [10]
