"""One model per fold, trained on the words of the other folds."""

import copy
import os

from test.clients.words.scenario import WordsScenario
from tfaip import TrainerParams
from tfaip.util.multiprocessing.parallelmap import parallel_map


def train_fold(params: TrainerParams):
    trainer = WordsScenario.create_trainer(params)
    trainer.train()
    return os.path.join(params.output_dir, params.early_stopping.best_model_name)


def train_folds(params: TrainerParams, n_folds: int):
    words = []
    for path in params.gen.train.lists:
        with open(path) as f:
            words.extend(f.read().split())

    os.makedirs(params.output_dir)
    folds = []
    for i in range(n_folds):
        fold = copy.deepcopy(params)
        fold.output_dir = os.path.join(params.output_dir, f"fold_{i}")
        others = [word for j, word in enumerate(words) if j % n_folds != i]
        fold.gen.train.lists = [write_list(params.output_dir, f"train_{i}", others)]
        fold.gen.val.lists = [write_list(params.output_dir, f"val_{i}", words[i::n_folds])]
        folds.append(fold)
    return list(parallel_map(train_fold, folds, desc="Folds", processes=1))


def write_list(directory, name, words):
    path = os.path.join(directory, name + ".lst")
    with open(path, "w") as f:
        f.write("\n".join(words))
    return path
