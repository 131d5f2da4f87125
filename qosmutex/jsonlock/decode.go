package jsonlock

import (
	"encoding/json"
	"errors"
	"reflect"
)

// wanted is what a field of a request is, in the words of JSON.
var wanted = map[reflect.Kind]string{
	reflect.Int64:  "a whole number",
	reflect.String: "a string",
	reflect.Struct: "an object",
}

// notARequest says what is wrong with JSON that is no request, in the words of JSON.
func notARequest(err error) error {
	var field *json.UnmarshalTypeError
	switch {
	case errors.As(err, &field) && field.Field == "":
		return Refuse(Malformed, "a request is a JSON object, this is of type %s", field.Value)
	case errors.As(err, &field) && wanted[field.Type.Kind()] != "":
		return Refuse(Malformed, "field %.20q is of type %s: give %s", field.Field, field.Value, wanted[field.Type.Kind()])
	case errors.As(err, &field):
		return Refuse(Malformed, "field %.20q is of type %s, which it cannot be", field.Field, field.Value)
	case errors.As(err, new(*json.SyntaxError)):
		return Refuse(Malformed, "not JSON: %.80s", err.Error())
	}
	return Refuse(Malformed, "a field cannot be read: sent is a number, and all others as docs/clients.md has them")
}
