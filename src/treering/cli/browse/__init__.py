"""The screens of `treering browse`: sessions, their trees and conversations. Only this folder uses Textual."""
