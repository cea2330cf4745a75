#include "runtime/cpu/clang_install_dir.h"

namespace kiln {

const char* clang_install_dir() { return KILN_CLANG_INSTALL_DIR; }

}  // namespace kiln
