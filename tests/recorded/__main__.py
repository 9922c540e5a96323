import json

from tests.recorded import RECORD, SAVED, TARGETS, measure

if __name__ == "__main__":
    records = [measure(name, target) for name in SAVED for target in TARGETS]
    RECORD.write_text("".join(json.dumps(r) + "\n" for r in records))
