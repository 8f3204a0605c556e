"""Spec of a worker process: params, from which it builds generator and processors."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tfaip.data.pipeline.batching import Batcher
from tfaip.data.pipeline.blocks import BlockProcessor
from tfaip.data.pipeline.datagenerator import DataGeneratorParams
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.params import ParamsBase


@dataclass(frozen=True)
class WorkerSpec:
    """Params of the work of a worker.

    Args:
        pipeline_params: of the pipeline, with its mode.
        data_params: passed to the processors.
        processors: the processors; those of them run that may run in workers.
        seed: of the data.
        generator_params: a generator with random access that the worker reads from; None: it is
            sent the raw samples.
        batcher: stacks blocks on demand; None: blocks are never stacked.
    """

    pipeline_params: DataPipelineParams
    data_params: ParamsBase
    processors: DataProcessorPipelineParams
    seed: int
    generator_params: DataGeneratorParams | None = None
    batcher: Batcher | None = None

    def create(self) -> BlockProcessor:
        """Build generator and processors."""
        generator = None
        if self.generator_params is not None:
            generator = self.generator_params.create(self.pipeline_params.mode)
        mapper = self.processors.create_parallel(self.pipeline_params, self.data_params)
        return BlockProcessor(generator, mapper, self.seed, self.batcher)


def main_script(pickled: bytes) -> str | None:
    """Return the file that a worker must run first to know the classes that are pickled.


    Returns:
        the path of the script that is running if it defines some of them, else None.

    Raises:
        ValueError: if there is no such file, or running it would start its work again.
    """
    if b"__main__" not in pickled:
        return None
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        raise ValueError("classes that were defined interactively exist only in this process: move them to a module")
    with open(path, encoding="utf-8") as file:
        if "__name__" not in file.read():
            raise ValueError(
                f"{path} defines classes and does its work without asking if __name__ == "
                f"'__main__': ask it, or move the classes to a module"
            )
    return str(path)
