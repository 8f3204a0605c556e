from tfaip.params.commandline.paiargs import TFAIPArgumentParser as TFAIPArgumentParser
