// Work that falls into independent parts.
#pragma once

#include <cstddef>
#include <functional>

namespace kiln {

/// `one` of every index below `count`, on all cores, in any order. Throws what the first of them
/// threw, when all cores are done; what is left then is not begun.
void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& one);

}  // namespace kiln
