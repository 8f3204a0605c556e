"""One scenario, declared in the long form (`old`) and by its parts (`new`)."""
