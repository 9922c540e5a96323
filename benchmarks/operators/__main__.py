from benchmarks.operators.survey import STUDY

raise SystemExit(STUDY.main())
