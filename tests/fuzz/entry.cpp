#include "fuzz/entry.h"

namespace kiln::test {

const FuzzEntry kFuzzEntry{KILN_FUZZ_NAME, KILN_CORPUS, KILN_MUTATIONS};

}  // namespace kiln::test
