/* Shared by the two translation units of the test module. */
#ifndef BORDER_H
#define BORDER_H

PyObject *border_raise(HRESULT hr);

#endif
