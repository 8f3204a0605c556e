from tfaip.params.paiargs import TFAIPArgumentParser as TFAIPArgumentParser
