"""Build of the package (metadata: pyproject.toml). The examples, which `tfaip-new` copies, become a part of it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithExamples(build_py):
    """Copies `examples/` into the package, where `tfaip.scripts.new` finds it if there is no checkout."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:
            ignored = shutil.ignore_patterns("__pycache__", "runs")
            shutil.copytree("examples", Path(self.build_lib, "tfaip", "examples"), ignore=ignored, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithExamples})
