"""The page about the architecture names modules that exist."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FOLDERS = [ROOT / "core" / "batchwright", ROOT / "plugins", ROOT]
"""Where a path on the page may start from."""
NAMED = re.compile(r"`([\w/]+(?:\.py|/))`")


def is_there(path: str) -> bool:
    return any((folder / path).exists() for folder in FOLDERS)


def names_on_the_page() -> set[str]:
    return set(NAMED.findall(PAGE.read_text(encoding="utf-8")))


def test_paths_on_the_page_exist() -> None:
    assert [path for path in sorted(names_on_the_page()) if not is_there(path)] == []


def test_paths_in_its_pictures_are_on_the_page() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("architecture-*.svg"))
    assert len(pictures) == 3
    for picture in pictures:
        texts = ["".join(text.itertext()) for text in ET.parse(picture).iter()]
        for path in {text for text in texts if re.fullmatch(r"[\w/]+\.py", text)}:
            assert path in names_on_the_page() or f"plugins/{path}" in names_on_the_page(), path


def test_every_picture_of_the_page_has_both_themes() -> None:
    for picture in re.findall(r"\]\((\S+\.svg)\)", PAGE.read_text(encoding="utf-8")):
        drawn = (PAGE.parent / picture).read_text(encoding="utf-8")
        assert "@media (prefers-color-scheme: dark)" in drawn
        assert not re.findall(r'(?:fill|stroke)="#', drawn)  # such a colour stays in the dark
