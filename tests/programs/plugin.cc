// A library to dlopen, which computes and throws: -DNAME= gives its functions a name of their own.
#include <stdexcept>

#include "burn.h"

#define PASTE(a, b)   a##b
#define NAMED(prefix) PASTE(prefix, NAME)

extern "C" {
BURNER(NAMED(burn_in_))

OWN_FRAME void throw_it(int number);
}

OWN_FRAME void throw_it(int number)
{
    throw std::runtime_error(std::string(static_cast<size_t>(number % 40), 'x'));
}

// Throws and catches number times inside the library; returns how many were caught.
extern "C" long throw_inside(long number)
{
    long caught = 0;

    for (long i = 0; i < number; i++) {
        try {
            throw_it(static_cast<int>(i));
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    return caught;
}

// The same through a function of the caller, which the exception crosses.
extern "C" long throw_across(long number, void (*caller)(void (*)(int), int))
{
    long caught = 0;

    for (long i = 0; i < number; i++) {
        try {
            caller(throw_it, static_cast<int>(i));
        } catch (const std::exception &) {
            caught++;
        }
    }
    return caught;
}
