// Where kiln's own code lies on disk: what belongs to it is found from there. Knows no files.
#pragma once

#include <filesystem>

namespace kiln {

/// The folder of the executable or shared object that holds kiln's code; empty when the loader
/// cannot tell.
std::filesystem::path own_folder();

/// From now on dlclose() does not unmap the shared object that holds kiln's code.
void stay_loaded();

}  // namespace kiln
