// What the text of a problem may have behind its sizes, for help texts.
#pragma once

#include <string>

namespace kiln {

/// All keys with the values that they take, "batch=N lda= … numerics=(ieee|fast|tensor)".
std::string keys_help();

}  // namespace kiln
