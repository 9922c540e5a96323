"""Packed files that anybody may have written. The reader lives with extraction, which imports nothing of this package
and reads choice graphs with it."""

from extraction.unpack import UnpackError as UnpackError
from extraction.unpack import check_zip as check_zip
from extraction.unpack import pack_arrays as pack_arrays
from extraction.unpack import pack_json as pack_json
from extraction.unpack import unpack_arrays as unpack_arrays
from extraction.unpack import unpack_json as unpack_json
