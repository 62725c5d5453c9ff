"""Templates to HTML. Everything that is put into one is escaped, but for the charts' own markup."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

_FOLDER = Path(__file__).parent


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["drawn"] = Markup  # a Chart's svg: its texts are escaped where it is made
    return made


_PAGES = _environment()


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """`viewer` and `leave` (the seal of the sign-out form) are None on pages for nobody in particular."""
    common = {"viewer": None, "leave": None, "now": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")}
    return HTMLResponse(_PAGES.get_template(template).render(common | values), status)


def style() -> str:
    return (_FOLDER / "static" / "page.css").read_text(encoding="utf-8")
