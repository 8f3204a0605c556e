"""Words that are named one by one."""

from typing import Iterable, List

from test.clients.words.params import FilesParams
from tfaip import PipelineMode, Sample
from tfaip.data.pipeline.datagenerator import DataGenerator


class Files(DataGenerator[FilesParams]):
    def __init__(self, mode: PipelineMode, params: FilesParams):
        super(Files, self).__init__(mode, params)
        self.groups = [params.files[i : i + params.group] for i in range(0, len(params.files), params.group)]

    def __len__(self):
        return len(self.params.files)

    def yields_batches(self) -> bool:
        return True

    def generate(self) -> Iterable[List[Sample]]:
        for group in self.groups:
            yield [Sample(inputs=path, targets=path) for path in group]
