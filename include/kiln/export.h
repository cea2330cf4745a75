/* Marks what a shared libkiln exports; everything else is built hidden. C and C++. */
#pragma once

#define KILN_API __attribute__((visibility("default")))
/* A part of a marked class that is not for users. */
#define KILN_LOCAL __attribute__((visibility("hidden")))
