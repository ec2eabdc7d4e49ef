/*
 * Inlined functions of C++, for argv[1] milliseconds: templates, methods, an unnamed namespace, a
 * lambda. Shares: Burner<60> 60 %, Burner<30> 30 %, hidden 10 %.
 */
#include "burn.h"

namespace shapes {
template <int N> struct Burner {
    template <typename Number> inline __attribute__((always_inline)) void run(Number us)
    {
        burn_us(us * N / 10);
    }
};
} // namespace shapes

namespace {
inline __attribute__((always_inline)) void hidden(long us)
{
    auto inside = [us]() __attribute__((always_inline)) { burn_us(us); };
    inside();
}
} // namespace

OWN_FRAME void work(long slice_us);
OWN_FRAME void work(long slice_us)
{
    shapes::Burner<60>().run<long>(slice_us);
    shapes::Burner<30>().run<int>((int)slice_us);
    hidden(slice_us);
    NOT_LAST();
}

MAIN_OF(work)
