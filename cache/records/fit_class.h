// Fitted models of a database, made from the measurements in it. Knows no engine.
#pragma once

#include "cache/record.h"
#include "cache/store.h"

namespace kiln {

/// Fits the model of the key's class of problems to all measurements of it on this device, and
/// stores it. Errors: database.
Status fit_class(Store& store, const BestKey& key);

/// The same for every class with a winner in the user's own file whose model there was fitted to
/// other analytic models than today's. Returns how many; with `write` false they are only counted.
/// Models that an earlier version spelt are written as today.
/// Errors: database.
Result<int> fit_stale_classes(Store& store, bool write);

}  // namespace kiln
