// stacksplice.hpp: one exception object and one error object, across languages and threads; and
// that nothing of them is left.
#include "shared.hpp"

#include <future>
#include <thread>

namespace
{

int live; // exception objects of the classes below

struct counted {
    counted()
    {
        ++live;
    }
    counted(const counted &)
    {
        ++live;
    }
    ~counted()
    {
        --live;
    }
};

struct shelf_error : ss::error, counted {
    explicit shelf_error(int number) : ss::error(E_BOUNDS, "no such shelf"), shelf(number)
    {
    }
    int shelf;
};

struct plain_error : std::runtime_error, counted {
    explicit plain_error(int number) : std::runtime_error("plain"), shelf(number)
    {
    }
    int shelf;
};

// What another language does with an error: takes it, and hands it on later.
HRESULT through_another_language(HRESULT hr)
{
    (void)stacksplice_propagate(hr, nullptr);
    auto info = take();

    assert_true(static_cast<bool>(info));
    assert_int_equal(SetRestrictedErrorInfo(info.get()), S_OK);
    return hr;
}

template <typename Exception> void comes_back_as_itself()
{
    const void *first = nullptr;
    const HRESULT hr = ss::guard([&] {
        try {
            throw Exception(17);
        } catch (const Exception &e) {
            first = &e;
            throw;
        }
    });
    const auto info = peek();

    for (int round = 0; round < 3; round++) {
        (void)through_another_language(hr);
        const HRESULT again = ss::guard([&] {
            try {
                (void)ss::check(hr);
            } catch (const Exception &e) {
                assert_ptr_equal(&e, first);
                assert_int_equal(e.shelf, 17);
                assert_false(static_cast<bool>(peek()));
                throw;
            }
        });
        assert_int_equal(again, hr);
        assert_true(peek() == info);
    }
    assert_string_equal(receivers_of(info).c_str(), "native c++ native c++ native c++");
    RoClearError();
}

TEST(an_error_comes_back_as_itself)
{
    comes_back_as_itself<shelf_error>();
    assert_int_equal(live, 0);
}

TEST(a_standard_exception_comes_back_as_itself)
{
    comes_back_as_itself<plain_error>();
}

// The exception travels to another thread inside C++, and leaves there.
template <typename Exception> void leaves_on_another_thread()
{
    const HRESULT hr = ss::guard([&] { throw Exception(3); });
    const auto info = take();
    auto arrived = std::async(std::launch::async, [&] {
        assert_int_equal(SetRestrictedErrorInfo(info.get()), S_OK);
        (void)ss::check(hr);
    });
    const HRESULT again = ss::guard([&] { arrived.get(); });

    assert_int_equal(again, hr);
    assert_true(peek() == info);
    RoClearError();
    HRESULT elsewhere = S_OK;
    std::thread([&] {
        assert_int_equal(SetRestrictedErrorInfo(info.get()), S_OK);
        try {
            (void)ss::check(hr);
        } catch (const Exception &e) {
            assert_int_equal(e.shelf, 3);
            elsewhere = ss::originate_current();
        }
        assert_true(peek() == info);
        RoClearError();
    }).join();
    assert_int_equal(elsewhere, hr);
}

TEST(an_error_leaves_on_another_thread)
{
    leaves_on_another_thread<shelf_error>();
    assert_int_equal(live, 0);
}

TEST(a_standard_exception_leaves_on_another_thread)
{
    leaves_on_another_thread<plain_error>();
}

TEST(copies_are_one_error)
{
    const shelf_error first(1);
    const ss::error sliced = first;
    const auto info = first.info();

    assert_true(static_cast<bool>(info));
    assert_true(sliced.info() == info);
    assert_false(static_cast<bool>(peek()));
    assert_int_equal(ss::guard([&] { throw first; }), E_BOUNDS);
    assert_true(take() == info);
    const std::string text = first.text();
    assert_true(text.find("shelf_error") != std::string::npos);
}

// Only its type, as the language that receives it sees it: that of the class that was thrown.
TEST(an_error_has_the_name_of_its_class)
{
    const HRESULT hr = ss::guard([] { throw shelf_error(1); });
    const auto info = take();

    assert_true(ss::error(hr, "", info).text().find("shelf_error: no such shelf") !=
                std::string::npos);
}

TEST(an_error_has_its_cause)
{
    const HRESULT hr = ss::guard([] {
        try {
            throw shelf_error(1);
        } catch (...) {
            std::throw_with_nested(ss::error(E_ABORT, "the order was dropped"));
        }
    });
    const std::string text = ss::error(hr, "", take()).text();

    assert_int_equal(hr, E_ABORT);
    assert_true(text.find("the order was dropped") != std::string::npos);
    assert_true(text.find("no such shelf") != std::string::npos);
    assert_int_equal(live, 0);
}

// An error object is the exception's while the exception is nobody's outside: no cycle keeps them.
TEST(nothing_is_left)
{
    live = 0;
    for (int i = 0; i < 1000; i++) {
        (void)ss::guard([&] { throw shelf_error(i); });
        RoClearError();
    }
    assert_int_equal(live, 0);
    for (int i = 0; i < 1000; i++) {
        const HRESULT hr = ss::guard([&] { throw shelf_error(i); });
        try {
            (void)ss::check(hr);
        } catch (const shelf_error &e) {
            assert_int_equal(e.shelf, i);
        }
        assert_int_equal(live, 0);
    }
    for (int i = 0; i < 1000; i++) {
        const HRESULT hr = ss::guard([&] { throw plain_error(i); });
        try {
            (void)ss::check(hr);
        } catch (const plain_error &e) {
            assert_int_equal(e.shelf, i);
        }
    }
    assert_true(live <= 16); /* the last ones: their errors go out with them if they leave again */
    assert_false(static_cast<bool>(peek()));
}

struct failing : ss::error {
    failing() : ss::error(E_FAIL, "has a failing destructor")
    {
    }
    failing(const failing &) = default;
    ~failing() override
    {
        (void)ss::guard([] { throw std::out_of_range("clean-up"); });
    }
};

// The last reference to an exception goes while another error is in flight.
TEST(a_failing_destructor_of_an_exception_does_not_replace_the_error)
{
    (void)ss::guard([] { throw failing(); });
    auto dying = take();

    (void)RoOriginateErrorW(E_ABORT, 0, nullptr);
    const auto before = peek();
    dying = nullptr;
    assert_true(peek() == before);
    RoClearError();
}

} // namespace
