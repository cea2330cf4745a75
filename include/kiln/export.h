/** @file
 * Marks of visibility, for C and C++. */
#pragma once

/** What a shared libkiln exports; everything else is built hidden. */
#define KILN_API __attribute__((visibility("default")))
/** A part of a marked class that is not for users. */
#define KILN_LOCAL __attribute__((visibility("hidden")))
