"""A session that has everything a viewer shows, for tests and pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import NamedTuple

import treering

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


class Sample(NamedTuple):
    """Nodes of the session, by what they are for."""

    question: str
    answer: str
    edited: str
    """Another version of the question of the second turn."""
    second: str
    kept: str
    compaction: str
    end: str
    checkpoint: str


def png(width: int = 320, height: int = 120) -> bytes:
    """Return a picture of two waves."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            rows += bytes((40 + (x * 90) // width, 110 + (y * 80) // height, 95 + ((x ^ y) % 32)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(bytes(rows)))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ANSWER = """The total is wrong because it **rounds twice**: once for each line, and once at the end.

1. `line_total` rounds to cents
2. `cart_total` sums these and rounds again

```python
def cart_total(lines: list[Line]) -> Decimal:
    # round once, at the end
    total = sum(line.quantity * line.price for line in lines)
    return total.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
```

| Order | Shown | Expected |
|---|---|---|
| 1041 | 20.01 | 20.00 |
| 1042 | 13.37 | 13.36 |

See [the rules](https://example.org/rounding) for *half up*.
"""


def record(store: treering.Store, name: str = "shop", *, hostile: bool = False) -> Sample:
    """Record the session."""
    title = HOSTILE if hostile else "Fix the total of the cart"
    with store.session(name, title=title, project="shop", cwd="/src/shop") as session:
        session.set_model("fine-model-2", provider="someone")
        picture = base64.b64encode(png()).decode()
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
        asked = HOSTILE if hostile else "Why is the total of the cart wrong? The customer sent this picture."
        question = session.append(treering.user([{"type": "text", "text": asked}, image])).node
        use = {
            "type": "tool_use",
            "id": "c1",
            "name": HOSTILE if hostile else "bash",
            "input": {"command": "pytest tests/test_cart.py -q"},
        }
        thought = {
            "type": "thinking",
            "thinking": "The customer sees 20.01. I should look at the rounding first.",
            "signature": "x",
        }
        session.append(treering.assistant([thought, {"type": "text", "text": "I run the tests first."}, use]))
        output = (
            HOSTILE
            if hostile
            else "F..\n" + "\n".join(f"tests/test_cart.py:{n}: assert 20.01 == 20.00" for n in range(12))
        )
        session.append(treering.tool(output, call="c1", name="bash"))
        answer = session.append(treering.assistant(ANSWER)).node
        session.record_usage(input=2140, output=388, cache_read=1800, target=answer)
        green = session.commit(
            [],
            state={"step": 1, "plan": ["reproduce", "fix", "test"], "files": {"cart.py": "read"}},
            label="reproduced",
        )
        second = session.append(treering.user("Fix it, and keep the API as it is.")).node
        for index in range(6):
            call = {
                "type": "tool_use",
                "id": f"e{index}",
                "name": "edit",
                "input": {"path": f"shop/part{index}.py", "diff": "-    return round(total, 2)\n+    return total"},
            }
            session.append(treering.assistant([{"type": "text", "text": f"Part {index + 1} of 6."}, call]))
            session.append(treering.tool("1 line changed", call=f"e{index}", name="edit"))
        session.append(treering.assistant("All six places round once now."))
        session.commit([], state={"step": 2, "files": {"cart.py": "changed"}}, drop=["plan"])
        session.label(second, "turning point")
        session.branch("gentle", node=answer)
        edited = session.append(treering.user("Fix it, and say in the changelog what changed for users.")).node
        session.commit(
            [treering.assistant("Fixed, with a line in the changelog: *totals are rounded once*.")],
            state={"step": 2, "changelog": True},
        )
        session.branch("third", node=answer)
        session.append(treering.user("Do not fix it yet. Write a failing test."))
        session.commit(
            [treering.assistant("```python\ndef test_total():\n    assert cart_total(ORDER) == Decimal('20.00')\n```")],
            state={"step": 2},
        )
        session.switch("main")
        kept = session.append(treering.user("Now the docs.")).node
        compaction = session.compact(
            "The cart rounded twice; six places were changed. Tests pass.",
            kept=kept,
            tokens_before=41200,
            tokens_after=3100,
        ).node
        done = session.commit(
            [treering.assistant("The page *Rounding* says it now.")], state={"step": 3, "docs": ["rounding.md"]}
        )
        session.record_usage(input=3300, output=41, target=done.nodes[-1])
        assert green.checkpoint is not None
        assert compaction is not None
        return Sample(question, answer, edited, second, kept, compaction, done.nodes[-1], green.checkpoint)
