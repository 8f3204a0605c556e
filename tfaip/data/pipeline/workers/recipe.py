"""What a worker process gets: params, from which it builds generator and processors itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import Batcher
from tfaip.data.pipeline.blocks import BlockMaker
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams


@dataclass(frozen=True)
class Recipe:
    """How to build a `BlockMaker` in a worker.

    Args:
        pipeline_params: of the pipeline, with its mode.
        data_params: handed to the processors.
        processors: which processors; those of them that may run in workers will.
        generator_params: a generator with random access that the worker reads from; None: it is sent the raw samples.
        batcher: stacks blocks where that is asked for; None: it never is.
    """

    pipeline_params: DataPipelineParams
    data_params: DataBaseParams
    processors: DataProcessorPipelineParams
    generator_params: DataGeneratorParams | None = None
    batcher: Batcher | None = None

    def create(self) -> BlockMaker:
        """Build generator and processors."""
        generator = None
        if self.generator_params is not None:
            generator = self.generator_params.create(self.pipeline_params.mode)
        mapper = self.processors.create_parallel(self.pipeline_params, self.data_params)
        return BlockMaker(generator, mapper, self.batcher)


def script_of(pickled: bytes) -> str | None:
    """The file that a worker must run first, as a module, to know the classes that are pickled.

    Returns:
        the path of the script that is running if it defines some of them, else None.

    Raises:
        ValueError: there is no such file, or running it would start its work again.
    """
    if b"__main__" not in pickled:
        return None
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        raise ValueError("classes that were defined interactively exist only in this process: move them to a module")
    with open(path, encoding="utf-8") as file:
        if "__name__" not in file.read():
            raise ValueError(
                f"{path} defines classes and does its work without asking if __name__ == '__main__': ask it, or move "
                f"the classes to a module"
            )
    return str(path)
