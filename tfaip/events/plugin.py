"""TensorBoard plugin against warnings of its projector about the directory `checkpoint` of a run.

The projector asks TensorFlow several times a minute for a file `checkpoint` in every directory of
events and its parent. In a run that is a directory, and TensorFlow warns twice each time.
"""

import logging
import os
import re

from tensorboard.plugins.base_plugin import TBContext, TBLoader

_WARNING = re.compile(r"(?:FailedPreconditionError: )?(.+[/\\]checkpoint)(?:; Is a directory|: Checkpoint ignored)")


class QuietProjector(TBLoader):
    """Plugin that hides TensorFlow's warnings about directories called `checkpoint`."""

    def load(self, context: TBContext) -> None:
        """Add the filter to TensorFlow's logger; return None, since there is no page."""
        tensorflow = logging.getLogger("tensorflow")
        tensorflow.removeFilter(_is_worth_a_warning)
        tensorflow.addFilter(_is_worth_a_warning)


def _is_worth_a_warning(record: logging.LogRecord) -> bool:
    found = _WARNING.fullmatch(record.getMessage())
    return found is None or not os.path.isdir(found[1])
