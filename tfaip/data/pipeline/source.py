"""Where processed blocks come from: this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfaip.data.pipeline.blocks import Block, BlockMaker, Result


class BlockSource:
    """Gives processed blocks.

    Args:
        here: makes blocks in this process.
    """

    def __init__(self, here: BlockMaker) -> None:
        self._here = here

    def results(self, blocks: Iterable[Block], seed: int, as_batches: bool) -> Iterator[Result]:
        """Process blocks, in order.

        Args:
            blocks: may be endless.
            seed: of the data.
            as_batches: workers shall stack each block.
        """
        for block in blocks:
            yield self._here.make(block, seed)
