from tfaip.compat.paiargs import TFAIPArgumentParser as TFAIPArgumentParser
