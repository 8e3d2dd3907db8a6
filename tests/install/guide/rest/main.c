int main(int argc, char **argv)
{
    HRESULT hr;
    int status;

    if (argc != 3)
        return 2;
    PyImport_AppendInittab("shop", PyInit_shop);
    Py_Initialize();
    shop_lua = luaL_newstate();
    if (!shop_lua)
        return 2;
    open_shop(shop_lua);
    hr = stacksplice_python_import();
    if (SUCCEEDED(hr))
        hr = run_lua(shop_lua, argv[1]);
    if (SUCCEEDED(hr))
        hr = run_python(argv[2]);
    status = report(hr);
    lua_close(shop_lua);
    return Py_FinalizeEx() < 0 ? 2 : status;
}
