"""Command lines and files for the programs of the corpus of Unix tools, which has none."""

SCENES = {}


def write_files(folder):
    folder.mkdir(parents=True)
