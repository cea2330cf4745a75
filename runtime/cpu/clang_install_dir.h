#pragma once

namespace kiln {

/// Where an installed compiler lies; a build that borrows one names that build's folder. In a file
/// of its own, so that no other depends on where the build lies.
const char* clang_install_dir();

}  // namespace kiln
