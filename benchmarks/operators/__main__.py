import sys

from benchmarks.operators.survey import main

sys.exit(main())
