"""What is wrong with a result file, as a sentence and the place in the file."""


class ImportProblem(ValueError):
    """The file can't be evidence as it is. `where` is the place: a line, a row, a member of an archive, a field.

    Base of all that importers raise; nothing else comes out of them, whatever the bytes are.
    """

    def __init__(self, sentence: str, where: str = "") -> None:
        super().__init__(f"{where}: {sentence}" if where else sentence)
        self.sentence = sentence
        self.where = where


class RecordTooLarge(ImportProblem):
    """The record does not fit into one ConfigMap."""
