# Our headers have plain comments; doxygen reads those that begin with two stars.
/^ *\/\* -----* .*\*\/$/ s/.*//
/^ *\/\/ -----* / s/.*//
/^\/\* \{[0-9A-F-]+\} \*\/$/ s/.*//
# What describes an interface stands before its identifier.
/^STACKSPLICE_WINRT_IID\(/ s/.*//
# What a comment shows as it stands: doxygen would take these for commands and tags.
/^ *(\/?\*|\/\/)/ {
  s/([<@#])/\\\1/g
}
1 s|^/\*$|/** @file|
# Code in the head of a header: it needs four blanks.
s|^//   |//     |
1 s|^// (.*)|/// @file\n/// \1|
s|^( *)/\*( .*)?$|\1/**\2|
s|^( *)// |\1/// |
s|^( *)//$|\1///|
# Behind a member or a value.
/^ *(#|\/?\*|\/\/)/! s| /\* (.*)| /**< \1|
# The marks of a function are a paragraph of their own.
s|^( \*) (\[(own\|thread\|-[0-9(]).*)|\1\n\1 \2|
# The inline namespace is a matter of link names.
/^inline namespace v1$/ {
  N
  s/.*//
}
/^\} \/\/ namespace v1$/ s/.*//
# What is private is no reader's.
/^  private:$/,/^};$/ {
  /^};$/! s/.*//
}
# A method that clang-format breaks before its parameters: doxygen takes these for members.
/\(STDMETHODCALLTYPE \*\w+\)$/ {
  N
  s/\n *//
}
