"""The outline of a page: elements with their classes and texts, one a line, without Pygments' markup."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from html_pages import VOID

# What stands on lines of its own; all else is part of a line.
_BLOCKS = {"article", "details", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "li", "main", "ol", "p"}
_BLOCKS |= {"pre", "section", "summary", "svg", "table", "tbody", "thead", "tr"}


@dataclass
class _Element:
    tag: str
    css: str
    is_open: bool
    parts: list[_Element | str] = field(default_factory=list)

    def has_blocks(self) -> bool:
        inner = [part for part in self.parts if isinstance(part, _Element)]
        return any(part.tag in _BLOCKS or part.has_blocks() for part in inner)

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.inline() for part in self.parts)

    def inline(self) -> str:
        if self.tag == "mark":
            return f"«{self.text()}»"
        if self.tag in ("dt", "dd", "td", "th"):
            return f" {self.text()} "
        is_token = self.css.startswith("t-")  # Pygments'
        return f"[{self.css}: {self.text().strip()}]" if self.css and not is_token else self.text()

    def lines(self, margin: str) -> list[str]:
        name = f"{self.tag}{''.join(f'.{each}' for each in self.css.split())}{' open' * self.is_open}"
        inner = [part for part in self.parts if isinstance(part, _Element)]
        if self.tag == "svg" or not self.has_blocks():
            text = inner[0].text() if self.tag == "svg" else self.text()  # its title says what is drawn
            return [f"{margin}{name} {' '.join(text.replace('»«', '').split())}".rstrip()]
        is_shown = bool(self.css) or self.is_open
        below = margin + "  " * is_shown
        return [margin + name] * is_shown + [line for part in inner for line in part.lines(below)]


class _Outline(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.root = _Element("page", "", False)
        self._open = [self.root]
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        element = _Element(tag, attributes.get("class") or "", "open" in attributes)
        self._open[-1].parts.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        self._open.pop()

    def handle_data(self, data):
        self._open[-1].parts.append(data)


def outline(page: str) -> str:
    """What stands in the main part of PAGE."""
    inside = page[page.index("<main>") : page.index("</main>") + len("</main>")]
    return "\n".join(_Outline(inside).root.lines(""))
