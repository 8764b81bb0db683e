"""Small PDF files."""

from __future__ import annotations


def pdf(*lines: str, title: str = "") -> bytes:
    """One page with these lines, in ASCII."""
    shown = "".join(f"({_plain(line)}) Tj 0 -20 Td " for line in lines)
    stream = f"BT /F1 12 Tf 20 700 Td {shown}ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Title({_plain(title)})>>".encode(),
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%sendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size %d/Root 1 0 R/Info 6 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return bytes(out) + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def _plain(text: str) -> str:
    return text.replace("\\", "").replace("(", "[").replace(")", "]")
