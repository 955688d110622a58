"""The rules of what workers leave behind: sessions, features, steps, and the view back."""
