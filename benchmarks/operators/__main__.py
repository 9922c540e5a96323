from benchmarks.operators.survey import STUDY

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
