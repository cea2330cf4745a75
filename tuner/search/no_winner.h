// The error of a search in which no candidate came through, by what most of them failed of.
#pragma once

#include <cstddef>
#include <span>

#include "tuner/search/search.h"

namespace kiln {

/// `tried`: how many configs the rows are of. Errors: compiler, verification, device.
tl::unexpected<Error> no_winner(const SearchInput& input, std::span<const Measured> rows,
                                std::size_t tried);

}  // namespace kiln
