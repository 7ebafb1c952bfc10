/* When a run may ask for its answer before it sleeps: always while it pays, ever less while not. */
#include "unit.h"

#include "providers/wasm/eager.h"

/* Runs until one may be eager again, that one included. */
static int runs_until_eager(wasm_eagerness *eagerness)
{
    int runs = 1;
    while (!wasm_eager_may(eagerness))
        assert_true(runs++ < 100000);
    return runs;
}

static void it_goes_on_while_it_pays(void **state)
{
    (void)state;
    wasm_eagerness eagerness = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(runs_until_eager(&eagerness), 1);
        wasm_eager_learn(&eagerness, WASM_EAGER_PAID);
    }
}

static void it_is_tried_less_and_less_while_in_vain(void **state)
{
    (void)state;
    wasm_eagerness eagerness = {0};
    int before = 1;
    for (int i = 0; i < 100; i++) {
        int runs = runs_until_eager(&eagerness);
        assert_true(runs > before || runs == 1025 || i == 0);
        before = runs;
        wasm_eager_learn(&eagerness, WASM_EAGER_IN_VAIN);
    }
    assert_int_equal(before, 1025); /* and still tried, so that a machine that calms down is seen */
}

static void one_that_pays_makes_up_for_all(void **state)
{
    (void)state;
    wasm_eagerness eagerness = {0};
    for (int i = 0; i < 20; i++)
        wasm_eager_learn(&eagerness, WASM_EAGER_IN_VAIN);
    runs_until_eager(&eagerness);
    wasm_eager_learn(&eagerness, WASM_EAGER_PAID);
    assert_int_equal(runs_until_eager(&eagerness), 1);
    wasm_eager_learn(&eagerness, WASM_EAGER_IN_VAIN);
    assert_int_equal(runs_until_eager(&eagerness), 17);
}

static void a_run_that_was_not_eager_teaches_nothing(void **state)
{
    (void)state;
    wasm_eagerness eagerness = {0};
    wasm_eager_learn(&eagerness, WASM_EAGER_IN_VAIN);
    wasm_eager_learn(&eagerness, WASM_EAGER_NOT);
    wasm_eager_learn(&eagerness, WASM_EAGER);
    assert_int_equal(runs_until_eager(&eagerness), 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_while_it_pays),
        cmocka_unit_test(it_is_tried_less_and_less_while_in_vain),
        cmocka_unit_test(one_that_pays_makes_up_for_all),
        cmocka_unit_test(a_run_that_was_not_eager_teaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
