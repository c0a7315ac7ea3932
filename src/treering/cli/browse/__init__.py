"""What `treering browse` shows: sessions, their trees and conversations. Only this folder knows Textual."""
